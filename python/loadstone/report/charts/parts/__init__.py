"""What every chart is made of: colours, axes, panels, marks, and words that find room."""
